-- Parked fees whose payment is booked by now, or their hints whose order is there.
SELECT e.id
  FROM channel_events e
 WHERE e.state = 'PARKED' AND e.outcome = 'UNKNOWN_PAYMENT'
   AND (EXISTS (SELECT FROM journals j WHERE j.tenant_id = e.tenant_id AND j.key = 'received:' || e.account_id || ':' || e.transaction_id)
     OR (e.kind = 'PAY_FEE_HINT' AND EXISTS (SELECT FROM payments p WHERE p.tenant_id = e.tenant_id AND p.out_trade_no = e.out_trade_no
                                                AND coalesce(p.account_id, e.account_id) = e.account_id)))
 ORDER BY e.id
 LIMIT $1
