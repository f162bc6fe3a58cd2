"""Why a lookup ends where it ends."""
