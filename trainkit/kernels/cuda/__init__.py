"""How a kernel of CUDA C++ is compiled and launched."""
