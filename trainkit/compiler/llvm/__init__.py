"""Steps as LLVM text, and the machine code of it."""
