-- The legs of a new sharing, in one statement. Guard: share_leg_once.
INSERT INTO share_legs (share_id, tenant_id, account, type, name, description, ratio, amount, state)
SELECT $1, $2, l.account, l.type, l.name, l.description, l.ratio, l.amount, CASE l.amount WHEN 0 THEN 'EMPTY' ELSE 'PENDING' END
  FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[]) AS l (account, type, name, description, ratio, amount)
