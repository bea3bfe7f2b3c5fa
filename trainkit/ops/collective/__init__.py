"""Operations that the replicas of a model do together."""
