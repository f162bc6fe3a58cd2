-- A session ends when a visitor does nothing for half an hour.
WITH gaps AS (
  SELECT *, at - LAG(at) OVER (PARTITION BY user ORDER BY at) > INTERVAL 30 MINUTES AS is_new FROM visits
), numbered AS (
  SELECT *, SUM(CASE WHEN is_new IS NULL OR is_new THEN 1 ELSE 0 END) OVER (PARTITION BY user ORDER BY at) AS session FROM gaps
)
SELECT user, session, MIN(at) AS started, MAX(at) AS ended, COUNT(*) AS visits, MIN_BY(url, at) AS landing
FROM numbered GROUP BY user, session
