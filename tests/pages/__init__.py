"""The programs of the pages by which people learn this, as tests in our own words."""
