"""One file for each hardware unit, one function for each instruction."""
