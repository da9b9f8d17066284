"""What runs calls: threads, processes, Dask, or any executor of `concurrent.futures`; knows no jobs."""
