"""The job file: the request, the plan, and the completed work."""
