"""The table of operators: one file of rows for each category. `catalog` puts them together."""
