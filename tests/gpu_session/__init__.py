"""The commands of a session on a borrowed GPU machine."""
