"""What each API asks the authorizer (`table`), how it does (`guards`, `special`), and how a denial is answered (`answers`)."""
