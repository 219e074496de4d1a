-- Lets one of many duplicates deliver a RECEIVED event that has rested. Guard: its deadline; the winner moves it on.
UPDATE channel_events
   SET next_drive_at = $2, drives = drives + 1
 WHERE id = $1 AND state = 'RECEIVED' AND next_drive_at <= $3
