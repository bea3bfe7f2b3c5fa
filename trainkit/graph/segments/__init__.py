"""Machine code for runs of nodes: kernels are traced to steps, and steps become one function.

`tracing` runs the kernels of nodes on arrays that take notes, which gives `steps`; `loops` joins
steps that walk over the same elements; `buffers` gives the results that stay inside places in one
piece of memory; `writer` writes LLVM's language; `machine` compiles and keeps it. Arithmetic that
is rounded exactly is compiled; everything else calls the very loops that NumPy calls
(`numpy_loops`), in the order in which NumPy calls them, so the bits are NumPy's.
"""
