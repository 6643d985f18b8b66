import { useParams } from "react-router";
import Job from "./Job";

/** The page of the job in the address. */
const JobPage = () => {
  const { job = "" } = useParams();
  return <Job job={job} key={job} />;
};

export default JobPage;
