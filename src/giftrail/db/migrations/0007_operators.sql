-- The audit trail: every act of an operator, in the transaction of the act.
CREATE TABLE operator_act (
    act_id text COLLATE "C" PRIMARY KEY,
    operator text NOT NULL,
    act text NOT NULL,
    subject text NOT NULL,
    detail jsonb NOT NULL,
    acted_at timestamptz NOT NULL
);
CREATE INDEX operator_act_subject ON operator_act (subject, act_id);
CREATE TRIGGER operator_act_is_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON operator_act
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
