"""Small tools that know nothing of environments."""
