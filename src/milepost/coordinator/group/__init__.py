"""Groups of every protocol: where requests about them come in, who looks after which, how they are read back and go away."""
