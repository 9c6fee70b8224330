"""ELA and ELLA (Algorithms 1 and 3) where states can be counted."""
