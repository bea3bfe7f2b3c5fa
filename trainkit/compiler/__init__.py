"""Array arithmetic, traced and compiled to machine code by LLVM."""
