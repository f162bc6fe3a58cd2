-- The three most visited pages of each hour.
WITH counted AS (
  SELECT DATE_TRUNC('hour', at) AS hour, url, COUNT(*) AS visits FROM visits GROUP BY 1, 2
)
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY hour ORDER BY visits DESC, url) AS place FROM counted) WHERE place <= 3
