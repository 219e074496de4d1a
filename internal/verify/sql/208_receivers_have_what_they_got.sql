-- Each receiver's account has what its legs and returns say, and its receivable what it owes.
WITH said AS (
    SELECT s.tenant_id, s.currency,
           CASE WHEN l.account ~ '^[A-Za-z0-9_.-]{1,120}$' THEN l.account
                ELSE 'sha256:' || left(encode(sha256(convert_to(l.account, 'UTF8')), 'hex'), 32) END AS id,
           sum(l.amount - coalesce(r.left_receiver, 0)) AS has, sum(coalesce(r.owed, 0)) AS owes
      FROM share_legs l
      JOIN shares s ON s.id = l.share_id
      LEFT JOIN LATERAL (SELECT sum(amount) FILTER (WHERE state IN ('RETURNED', 'OWED', 'CLEARED')) AS left_receiver,
                                sum(amount) FILTER (WHERE state = 'OWED') AS owed
                           FROM share_returns WHERE leg_id = l.id) r ON true
     WHERE l.state = 'SUCCEEDED'
     GROUP BY 1, 2, 3
), kept AS (
    SELECT tenant_id, currency, regexp_replace(code, '^(receiver|receivable):', '') AS id,
           coalesce(sum(balance) FILTER (WHERE code LIKE 'receiver:%'), 0) AS has, coalesce(sum(balance) FILTER (WHERE code LIKE 'receivable:%'), 0) AS owes
      FROM ledger_accounts
     WHERE code LIKE 'receiver:%' OR code LIKE 'receivable:%'
     GROUP BY 1, 2, 3
)
SELECT format('receiver %s of %s in %s: legs say that it has %s and owes %s, its accounts %s and %s', id, tenant_id,
              currency, coalesce(s.has, 0), coalesce(s.owes, 0), coalesce(k.has, 0), coalesce(k.owes, 0))
  FROM said s FULL JOIN kept k USING (tenant_id, currency, id)
 WHERE coalesce(s.has, 0) <> coalesce(k.has, 0) OR coalesce(s.owes, 0) <> coalesce(k.owes, 0)
 LIMIT @max
