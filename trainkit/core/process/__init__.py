"""What holds for the whole process: its messages, and the errors that it prints."""
