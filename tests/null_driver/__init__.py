"""Real CuPy over a CUDA driver that does nothing: what trainkit launches, copies and waits for.

No GPU is needed. CuPy checks arguments, compiles its kernels with NVRTC and refuses what it
refuses; a launch is counted and nothing else, so values mean nothing. A process that has installed
the driver (`installing.install`) has it to its end, and never has the stand-in beside it: run
`make test-null-driver`, or `python -m tests.null_driver.steps --help`.
"""
