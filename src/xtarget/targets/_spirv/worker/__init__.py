"""The child process that runs LLVM, and its parent's side."""
