"""Operations that take functions, and the machinery that all operations share."""
