"""What a person sees of a run: numbers first, as data, then their drawing."""
