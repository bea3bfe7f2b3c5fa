"""The command line, `python -m trainkit COMMAND`; each command is a module of its own."""
