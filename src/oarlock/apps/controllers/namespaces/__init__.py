"""What every namespace has, and how one that is deleted is emptied. Read `deletion` first."""
