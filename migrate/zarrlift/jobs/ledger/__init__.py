"""The job file: what a job was asked for, its plan, and what is done."""
