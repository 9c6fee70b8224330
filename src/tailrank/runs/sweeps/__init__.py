"""Many runs: in this process, in worker processes, on a Dask cluster."""
