"""The walls around candidates, from inside and from outside."""
