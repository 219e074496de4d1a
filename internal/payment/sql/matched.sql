-- Events that wait for an order which is there by now: whoever created it died before it could look for them.
SELECT e.id
  FROM channel_events e
 WHERE e.state = 'PARKED' AND e.outcome = 'UNKNOWN_ORDER'
   AND EXISTS (SELECT FROM payments p WHERE p.tenant_id = e.tenant_id AND p.out_trade_no = e.out_trade_no)
 ORDER BY e.id
 LIMIT $1
