"""Tables, figures and pages from records; knows no jax."""
