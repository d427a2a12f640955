"""The page on which a recipient opens a voucher: asks nobody else for anything, shows a code only when told to."""
