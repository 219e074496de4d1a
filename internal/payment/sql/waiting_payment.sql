-- Whether a report of the order's payment is stored and not booked yet.
SELECT EXISTS (SELECT FROM channel_events
                WHERE tenant_id = $1 AND out_trade_no = $2 AND state = 'RECEIVED' AND kind = 'PAY_SUCCESS')
