"""Certification: votes, bounds, certificates, records. Import from the modules, or from ``ars`` itself."""
