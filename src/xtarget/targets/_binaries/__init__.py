"""Reading binaries: ELF, MessagePack, SPIR-V, and which device runs which."""
