"""How good it is: scores, summaries, and the runs that produce them."""
