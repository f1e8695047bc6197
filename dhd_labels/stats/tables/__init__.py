"""The tables of the protocol, each a function of the arrays of a data set."""
