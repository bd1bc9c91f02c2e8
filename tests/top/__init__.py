"""`dpp top`: its figures, what it calls wrong, how it is drawn, and how it leaves the terminal."""
