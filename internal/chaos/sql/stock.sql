-- Every shelf.
SELECT tenant_id, sku, on_hand, reserved FROM stock
