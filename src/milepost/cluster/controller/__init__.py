"""The controller: one broker of a cluster that decides who leads what, and sends it to the others."""
