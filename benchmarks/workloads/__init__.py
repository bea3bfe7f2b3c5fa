"""The same work written for each framework; `bench_workloads.py` says who takes part in what."""
