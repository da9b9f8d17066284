"""Going on with a job: the same job or another, what is lost, what has moved."""
