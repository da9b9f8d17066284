"""The checks of a job, and the process that runs them."""
