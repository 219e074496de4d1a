-- Confirms a branch that was tried. Guard: the primary key on (gid, branch, 'end') decides against Cancel; without a try row
-- by try nothing is inserted. Answers who wrote the try row, and whether this confirms.
WITH tried AS (
    SELECT by FROM fences WHERE gid = $1 AND branch = $2 AND phase = 'try'
), mine AS (
    INSERT INTO fences (gid, branch, phase, by)
    SELECT $1, $2, 'end', 'confirm' FROM tried WHERE by = 'try'
    ON CONFLICT DO NOTHING
    RETURNING by
)
SELECT (SELECT by FROM tried), EXISTS (SELECT FROM mine)
