"""The checks of a job: what is compared, and the process that does it."""
