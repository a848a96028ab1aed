"""Small tools that several packages share."""
