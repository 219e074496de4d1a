-- +goose Up
-- A transfer may be decided and ended in one transaction, then in one move. Nothing turns back after the decision.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION check_transfer_move() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'TRYING' THEN
            RAISE EXCEPTION 'a transfer begins as TRYING'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_move';
        END IF;
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) NOT IN (('TRYING', 'CONFIRMING'), ('TRYING', 'CANCELLING'), ('CONFIRMING', 'CONFIRMED'), ('CANCELLING', 'CANCELLED'))
       AND NOT (OLD.mode = 'direct' AND OLD.state = 'TRYING' AND NEW.state IN ('CONFIRMED', 'CANCELLED'))
       AND NOT (OLD.state = 'TRYING' AND NEW.state = 'CONFIRMED' AND NEW.decided_at IS NOT DISTINCT FROM NEW.ended_at) THEN
        RAISE EXCEPTION 'transfer %: no move from % to %', OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_move';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION check_transfer_move() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'TRYING' THEN
            RAISE EXCEPTION 'a transfer begins as TRYING'
                USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_move';
        END IF;
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) NOT IN (('TRYING', 'CONFIRMING'), ('TRYING', 'CANCELLING'), ('CONFIRMING', 'CONFIRMED'), ('CANCELLING', 'CANCELLED'))
       AND NOT (OLD.mode = 'direct' AND OLD.state = 'TRYING' AND NEW.state IN ('CONFIRMED', 'CANCELLED')) THEN
        RAISE EXCEPTION 'transfer %: no move from % to %', OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'transfer_move';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
