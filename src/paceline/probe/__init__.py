"""The probe: measures links and collectives of the machines that are here, so that predictions need not guess them."""
