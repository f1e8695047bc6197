"""What people read of a data set: tables, figures, the page."""
