"""Small tools without SQL, without settings, without a word of vouchers."""
