-- What still moves or should: reports to be booked, reports whose order has come, orders whose time is over or soon will be,
-- refunds, sharings and transfers that have not ended.
SELECT (SELECT count(*) FROM channel_events WHERE state = 'RECEIVED') AS received,
       (SELECT count(*) FROM channel_events e
         WHERE e.state = 'PARKED' AND e.outcome = 'UNKNOWN_ORDER'
           AND EXISTS (SELECT FROM payments p WHERE p.tenant_id = e.tenant_id AND p.out_trade_no = e.out_trade_no)) AS unmatched,
       (SELECT count(*) FROM payments WHERE state = 'PENDING' AND expires_at <= now() + interval '5 minutes') AS expired,
       (SELECT count(*) FROM refunds WHERE ended_at IS NULL) AS refunds,
       (SELECT count(*) FROM shares WHERE ended_at IS NULL) AS shares,
       (SELECT count(*) FROM transfers WHERE ended_at IS NULL) AS transfers
