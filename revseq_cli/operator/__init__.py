"""What DirectML says, as data, and the reversal itself. It imports ground, and knows no file and no option."""
