"""Machine code in a process that never loads LLVM."""
